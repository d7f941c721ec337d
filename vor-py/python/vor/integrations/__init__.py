"""vor in frameworks for machine learning. Only the module of a framework imports it.

from vor.integrations.lightning import VorCallback      # lightning or pytorch_lightning
from vor.integrations.transformers import VorCallback   # Hugging Face
from vor.integrations import torch                      # scopes of the GPU, its memory, NVTX
"""
