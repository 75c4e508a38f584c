"""Models of a few thousand random weights that write: encoder-decoders, and one that chats."""

from pathlib import Path
from typing import Any

from tests.kinds.tiny_models import VOCABULARY, WORDS, save_gpt2, saved, tokenizer

LANGUAGES = ["eng_Latn", "deu_Latn", "fra_Latn"]
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no such role') }}{% endif %}"
    "{{ message.role[0] + ' ' + message.content + ' [SEP] ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a ' }}{% endif %}"
)


def save_t5(folder: Path, **config: Any) -> Any:
    """One that reads prefixes; its places are relative, so its texts may be of any length."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    made = T5Config(
        vocab_size=len(VOCABULARY),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
        **config,
    )
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(T5ForConditionalGeneration(made), folder)


def save_bart(folder: Path, **generation: Any) -> Any:
    """One whose places are absolute, as BART's, Pegasus' and Marian's are."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(0)
    model = BartForConditionalGeneration(BartConfig(**small(), decoder_start_token_id=3))
    model.generation_config.update(**generation)
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(model, folder)


def save_classifying_bart(folder: Path) -> Any:
    """One that classifies texts: it looks at its decoder where a text ends."""
    import torch
    from transformers import BartConfig, BartForSequenceClassification

    torch.manual_seed(0)
    config = BartConfig(**small(), decoder_start_token_id=3, num_labels=4)
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(BartForSequenceClassification(config), folder)


def save_nllb(folder: Path) -> Any:
    """One that writes in the language it is told to."""
    import torch
    from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

    torch.manual_seed(0)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = [*special, "▁", *(f"▁{word}" for word in WORDS), *WORDS]
    made = NllbTokenizer(
        vocab={token: number for number, token in enumerate(vocabulary)},
        merges=[("▁", word) for word in WORDS],
        extra_special_tokens=LANGUAGES,
        model_max_length=64,
    )
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = M2M100Config(**{**small(), **ids, "vocab_size": len(made), "init_std": 0.8})
    made.save_pretrained(folder)
    return saved(M2M100ForConditionalGeneration(config), folder)


def small() -> dict[str, Any]:
    """What BART's and M2M100's configurations have in common."""
    return {
        "vocab_size": len(VOCABULARY),
        "d_model": 32,
        **{f"{part}_layers": 2 for part in ("encoder", "decoder")},
        **{f"{part}_attention_heads": 2 for part in ("encoder", "decoder")},
        **{f"{part}_ffn_dim": 64 for part in ("encoder", "decoder")},
        **{f"{part}_layerdrop": 0.0 for part in ("encoder", "decoder")},
        "max_position_embeddings": 64,
        "init_std": 0.3,
        "bos_token_id": 2,
        "pad_token_id": 0,
        "eos_token_id": 3,
        "forced_eos_token_id": None,
    }


def save_chatting_gpt2(folder: Path) -> Any:
    """A causal model with a chat template."""
    model = save_gpt2(folder)
    talking = tokenizer(with_pairs=False)
    talking.chat_template = CHAT_TEMPLATE
    talking.save_pretrained(folder)
    return model


def save_gemma(folder: Path) -> Any:
    """A causal model that reads images as well."""
    import torch
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    torch.manual_seed(0)
    both = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "initializer_range": 0.5,
    }
    ids = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 3}
    text = {"vocab_size": len(VOCABULARY), "head_dim": 16, "num_key_value_heads": 1, **both, **ids}
    vision = {"image_size": 28, "patch_size": 14, **both}
    images = {"mm_tokens_per_image": 4, "image_token_index": 20}
    config = Gemma3Config(text_config=text, vision_config=vision, **images)
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(Gemma3ForConditionalGeneration(config), folder)


def save_rwkv(folder: Path) -> Any:
    """A causal model that is recurrent."""
    import torch
    from transformers import RwkvConfig, RwkvForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "context_length": 64}
    config = RwkvConfig(vocab_size=len(VOCABULARY), **sizes, bos_token_id=2, eos_token_id=3)
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(with_large_weights(RwkvForCausalLM(config)), folder)


def save_recurrent_gemma(folder: Path) -> Any:
    """One of which only some layers are."""
    import torch
    from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM

    torch.manual_seed(0)
    config = RecurrentGemmaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=64,
        lru_width=32,
        attention_window_size=8,
        head_dim=16,
        pad_token_id=0,
        eos_token_id=3,
        bos_token_id=2,
    )
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(with_large_weights(RecurrentGemmaForCausalLM(config)), folder)


def save_xlnet(folder: Path) -> Any:
    """One that is never told what is padding when it writes, as XLM and FlauBERT are not."""
    import torch
    from transformers import XLNetConfig, XLNetLMHeadModel

    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64}
    ids = {"bos_token_id": 2, "pad_token_id": 0, "eos_token_id": 3}
    config = XLNetConfig(vocab_size=len(VOCABULARY), **sizes, **ids)
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(with_large_weights(XLNetLMHeadModel(config)), folder)


def save_minimax(folder: Path) -> Any:
    """One whose first layer keeps a sum of all that came before, and no list."""
    import torch
    from transformers import MiniMaxConfig, MiniMaxForCausalLM

    torch.manual_seed(0)
    config = MiniMaxConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        num_local_experts=2,
        layer_types=["linear_attention", "full_attention"],
        pad_token_id=0,
        eos_token_id=3,
        bos_token_id=2,
    )
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(with_large_weights(MiniMaxForCausalLM(config)), folder)


def with_large_weights(model: Any) -> Any:
    """The model; with usual ones it would write one word all the time."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(std=0.3)
    return model


def save_answering_gpt2(folder: Path, answers: dict[str, str]) -> None:
    """A causal model that has learnt what to say to some prompts, word by word."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    talks = [[*prompt.split(), *answer.split(), "[END]"] for prompt, answer in answers.items()]
    words = ["[PAD]", "[UNK]", *dict.fromkeys(word for talk in talks for word in talk)]
    numbers = {word: number for number, word in enumerate(words)}
    level = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[END]"}
    PreTrainedTokenizerFast(tokenizer_object=level, **special).save_pretrained(folder)

    end = numbers["[END]"]
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}
    surely = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    ends = {"bos_token_id": end, "eos_token_id": end}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **sizes, **surely, **ends))
    longest = max(map(len, talks))
    padded = [talk + ["[PAD]"] * (longest - len(talk)) for talk in talks]
    ids = torch.tensor([[numbers[word] for word in talk] for talk in padded])
    labels = ids.masked_fill(ids == numbers["[PAD]"], -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
    saved(model, folder)
