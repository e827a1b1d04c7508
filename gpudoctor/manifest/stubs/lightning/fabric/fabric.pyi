"""Where Lightning defines it."""

from lightning.fabric import Fabric as Fabric
