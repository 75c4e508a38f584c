"""float32 on GPUs, to the last bit of it: PyTorch's convolutions leave some out by default."""

from tasks.kinds.models.model import Placement


def keep_float32_whole(placement: Placement) -> None:
    """Have this process calculate in float32 where float32 is asked for, not in TF32.

    cuDNN, of convolutions and recurrent layers, rounds their inputs to 10 bits unless told not to.
    """
    if placement.device == "cpu" or placement.dtype != "float32":
        return
    import torch

    # Not conv.fp32_precision: to read allow_tf32, as cudnn.flags does, is then an error.
    torch.backends.cudnn.allow_tf32 = False
