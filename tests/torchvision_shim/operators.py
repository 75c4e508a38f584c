"""`torchvision::nms` and `torchvision::roi_align` in plain torch.

torchvision's own lie in a library that is built for one build of torch, and there is none for the
build without CUDA. Slow and simple; the tests compare both with loops over single numbers.
"""

import torch


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Positions of boxes that no better box overlaps, best first.

    Args:
        boxes: (n, 4), x0, y0, x1, y1.
        scores: (n,).
        iou_threshold: intersection over union above which the worse of two boxes goes.
    """
    overlaps = pairwise_iou(boxes) > iou_threshold
    left = scores.argsort(descending=True, stable=True)
    kept = []
    while len(left):
        best, others = left[0], left[1:]
        kept.append(best)
        left = others[~overlaps[best, others]]
    return torch.stack(kept) if kept else left


def pairwise_iou(boxes: torch.Tensor) -> torch.Tensor:
    """Intersection over union of each pair, (n, n)."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (areas[:, None] + areas[None, :] - shared)


def roi_align(
    features: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """Means of bilinear samples in each cell of each region.

    Args:
        features: (n, channels, height, width).
        rois: (k, 5), the image's number and x0, y0, x1, y1 in pixels of the image.
        spatial_scale: pixels of the features for each pixel of the image.
        pooled_height: cells of a region, down.
        pooled_width: cells of a region, across.
        sampling_ratio: samples of a cell, each way; 0 or less: as many as it has pixels.
        aligned: whether a pixel's value is that of its middle.

    Returns:
        (k, channels, pooled_height, pooled_width).
    """
    pooled = features.new_zeros((len(rois), features.shape[1], pooled_height, pooled_width))
    for at, roi in enumerate(rois):
        x0, y0, x1, y1 = (roi[1:] * spatial_scale - 0.5 * aligned).tolist()
        width, height = (x1 - x0, y1 - y0) if aligned else (max(x1 - x0, 1.0), max(y1 - y0, 1.0))
        rows = sampling(y0, height, pooled_height, sampling_ratio, features.shape[2])
        columns = sampling(x0, width, pooled_width, sampling_ratio, features.shape[3])
        pooled[at] = rows.to(features) @ features[int(roi[0])] @ columns.to(features).T
    return pooled


def sampling(start: float, length: float, cells: int, ratio: int, pixels: int) -> torch.Tensor:
    """How much of each pixel is in each cell, along one side, (cells, pixels)."""
    samples = ratio if ratio > 0 else max(1, -int(-length / cells // 1))
    at = start + (torch.arange(cells * samples) + 0.5) * (length / cells / samples)
    outside = (at < -1) | (at > pixels)
    at = at.clamp(0, pixels - 1)
    low = at.floor().long().clamp(max=pixels - 1)
    high = (low + 1).clamp(max=pixels - 1)
    share = at - low
    weights = torch.zeros(cells * samples, pixels)
    weights.scatter_add_(1, low[:, None], (1 - share)[:, None])
    weights.scatter_add_(1, high[:, None], share[:, None])
    weights[outside] = 0
    return weights.view(cells, samples, pixels).mean(1)
