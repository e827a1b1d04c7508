"""The interface of the third version."""

from imageio import imread as imread
from imageio import imwrite as imwrite
