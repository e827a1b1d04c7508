"""What `import imageio` is in the second version."""

from imageio import *
