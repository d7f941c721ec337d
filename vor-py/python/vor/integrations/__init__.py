"""vor in frameworks for machine learning. Each module imports its framework when it is imported itself, and nothing else does.

    from vor.integrations.lightning import VorCallback      # lightning or pytorch_lightning
    from vor.integrations.transformers import VorCallback   # Hugging Face
    from vor.integrations import torch                      # scopes of the GPU, its memory, NVTX
"""
