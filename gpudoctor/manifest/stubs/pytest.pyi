"""What is expected to fail."""

from gpudoctor.manifest.effects import opens

@opens()
def raises(expected_exception=..., **more): ...
