"""Models that say themselves what a step of them is."""

class BaseModel:
    def train_step(self, data, optim_wrapper):
        losses = self(data, mode="loss")
        loss = losses["loss"]
        optim_wrapper.update_params(loss)
        return losses
    def val_step(self, data):
        return self(data, mode="predict")
    def test_step(self, data):
        return self(data, mode="predict")
