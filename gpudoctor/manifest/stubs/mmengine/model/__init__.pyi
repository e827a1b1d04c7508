"""Models that say themselves what a step of them is."""

class BaseModel:
    def train_step(self, data, optim_wrapper):
        losses = self(data, mode="loss")
        optim_wrapper.update_params(sum(losses[each] for each in losses if "loss" in each))
        return losses
    def val_step(self, data):
        return self(data, mode="predict")
    test_step = val_step
