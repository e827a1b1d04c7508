"""A command line that makes a model and its data, and trains them."""

from lightning.pytorch import Trainer

from gpudoctor.manifest.effects import Setting, possibly, surely, tell

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
        self.trainer = trainer_class()
        # Which of the classes below it the command line picks, nobody has written.
        known = possibly(model_class is not None) and not surely(subclass_mode_model)
        with_data = possibly(datamodule_class is not None) and not surely(subclass_mode_data)
        if known:
            self.model = model_class()
        self.datamodule = datamodule_class() if with_data else None
        if known and possibly(run):
            tell(self, "before_fit")
            self.trainer.fit(self.model, datamodule=self.datamodule)
            tell(self, "after_fit")
