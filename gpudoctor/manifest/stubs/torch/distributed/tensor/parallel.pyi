"""What cuts the layers of a model up among ranks."""

from gpudoctor.manifest.effects import trains

@trains()
def parallelize_module(module, device_mesh=None, parallelize_plan=None, **more): ...
