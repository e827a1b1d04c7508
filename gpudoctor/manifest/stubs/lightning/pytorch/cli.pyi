"""A command line that makes a model and its data, and trains them."""

from lightning.pytorch import Trainer

from gpudoctor.manifest.effects import (
    Setting,
    class_in_settings,
    installed_before,
    of_options,
    possibly,
    said_in_settings,
    surely,
    tell,
    written,
)

class LightningCLI:
    parser: Setting
    config: Setting
    def __init__(
        self,
        model_class=None,
        datamodule_class=None,
        save_config_callback=None,
        save_config_kwargs=None,
        trainer_class=Trainer,
        trainer_defaults=None,
        seed_everything_default=True,
        parser_kwargs=None,
        parser_class=None,
        subclass_mode_model=False,
        subclass_mode_data=False,
        args=None,
        run=True,
        **more,
    ):
        tell(self, "add_arguments_to_parser", self.parser)
        tell(self, "before_instantiate_classes")
        # Left out, it takes all GPUs that it sees; before version 2 it was one process.
        settings = {} if installed_before("lightning", 2) else {"devices": "auto"}
        if possibly(trainer_defaults is not None):
            settings = {**settings, **trainer_defaults}
        self.trainer = trainer_class(**{**settings, **said_in_settings("trainer")})
        # Which of the classes below it the command line picks, a setting file may say.
        if surely(model_class is None) or surely(subclass_mode_model):
            model_class = class_in_settings("model")
        if surely(datamodule_class is None) or surely(subclass_mode_data):
            datamodule_class = class_in_settings("data")
        known = possibly(model_class is not None)
        if known:
            self.model = of_options(model_class)
        self.datamodule = of_options(datamodule_class) if possibly(datamodule_class is not None) else None
        # The first word of the command line says which of them: a project is started with each that it has written.
        if known and possibly(run):
            tell(self, "before_fit")
            self.trainer.fit(self.model, datamodule=self.datamodule)
            tell(self, "after_fit")
            if written(self.model, "test_step"):
                tell(self, "before_test")
                self.trainer.test(self.model, datamodule=self.datamodule)
                tell(self, "after_test")
            if written(self.model, "predict_step"):
                tell(self, "before_predict")
                self.trainer.predict(self.model, datamodule=self.datamodule)
                tell(self, "after_predict")
