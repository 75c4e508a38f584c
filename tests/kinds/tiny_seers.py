"""A model of few random weights that is shown images, and that vLLM's engine takes on CPUs too."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_llamas import TOKENS, byte_tokenizer, sizes

PLACES = 512
SIDE = 28
"""Pixels along a token's part of an image."""
BEGIN, IMAGE, VIDEO, END = "<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] }}"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    f"{{% if part.type == 'text' %}}{{{{ part.text }}}}{{% else %}}{BEGIN}{IMAGE}{END}{{% endif %}}"
    "{% endfor %}{% endif %}{% endfor %}"
)


def save_qwen2_vl(folder: Path) -> Any:
    """Qwen2-VL with a chat template; it sees images as they are, up to 64 tokens of them."""
    import torch
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    torch.manual_seed(0)
    tokenizer = byte_tokenizer(PLACES, additional_special_tokens=[BEGIN, IMAGE, VIDEO, END])
    tokenizer.chat_template = CHAT_TEMPLATE
    begin, image, video, end = range(TOKENS, len(tokenizer))
    text = {
        **sizes(),
        "vocab_size": len(tokenizer),
        "max_position_embeddings": PLACES,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [4, 6, 6],
        },
    }
    vision = {
        "depth": 2,
        "embed_dim": 64,
        "hidden_size": text["hidden_size"],
        "num_heads": 2,
        "initializer_range": 0.3,
    }
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=begin,
        vision_end_token_id=end,
        initializer_range=0.3,
    )
    model = Qwen2VLForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    processor_for(tokenizer).save_pretrained(folder)
    return model


def processor_for(tokenizer: Any) -> Any:
    """What prepares texts and images, and would prepare videos."""
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    size = {"shortest_edge": SIDE**2, "longest_edge": 64 * SIDE**2}
    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
        chat_template=tokenizer.chat_template,
    )
