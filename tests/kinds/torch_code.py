"""Modules as users write them."""

from typing import NamedTuple

import torch  # noqa: TID253 - a user imports it so


class Digits(torch.nn.Module):
    """Scores of the ten digits."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


class Rectified(torch.nn.Module):
    """Two layers with the usual step between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 8), torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Hashed(torch.nn.Module):
    """A number for each of some drawers that whole numbers go to."""

    def __init__(self) -> None:
        super().__init__()
        self.drawers = torch.nn.Embedding(97, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drawers((x * 31 + 7) % 97).sum(-1)


class Within(torch.nn.Module):
    """Has a part of the name that wrappers give a module."""

    def __init__(self) -> None:
        super().__init__()
        self.module = Digits()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.module(x))


class Tied(torch.nn.Module):
    """Two layers that have the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Pair(NamedTuple):
    total: torch.Tensor
    double: torch.Tensor


class Several(torch.nn.Module):
    """Two inputs, one of them a number of a category; outputs of the kind that is asked for."""

    def __init__(self, returns: str = "dict") -> None:
        super().__init__()
        self.table = torch.nn.Embedding(5, 3)
        self.returns = returns

    def forward(self, x: torch.Tensor, category: torch.Tensor) -> object:
        total = x + self.table(category)
        many = {
            "dict": {"total": total, "double": 2 * total[:, 0]},
            "named": Pair(total, 2 * total[:, 0]),
            "tuple": (total, 2 * total[:, 0]),
            "nested": {"total": total, "state": (total, total)},
            "mean": total.mean(0),
            "one": total.mean(),
            "squeezed": (2 * total[:, :1]).squeeze(),
            "squeezed lists": total.squeeze(),
            "squeezed dict": {"total": total.squeeze(), "double": (2 * total[:, :1]).squeeze()},
            "empty": total[:0],
        }
        return many[self.returns]


class SeveralWithoutGradients(Several):
    """Has a forward of which the source does not say how it is called."""

    @torch.no_grad()
    def forward(self, x: torch.Tensor, category: torch.Tensor) -> object:
        return super().forward(x, category)


class HandedOver(Several):
    """Is called with one input, and hands its forward two."""

    def __call__(self, batch: torch.Tensor) -> object:
        return super().__call__(x=batch, category=torch.zeros(len(batch), dtype=torch.int64))

    def forward(self, x: torch.Tensor, category: torch.Tensor) -> object:
        return super().forward(x, category)


class HookedUp(Several):
    """The same, by a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(
            lambda _, given: (*given, torch.zeros(len(given[0]), dtype=torch.int64))
        )

    def forward(self, x: torch.Tensor, category: torch.Tensor) -> object:
        return super().forward(x, category)


class Beside(torch.nn.Module):
    """Puts a number beside others."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(1))

    def forward(self, picture: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        return self.factor * torch.cat([picture, age], 1)


class Reusing(torch.nn.Module):
    """Doubles numbers, each time into the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(2.0))
        self.made = torch.empty(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.made[: len(x)] = self.factor * x
        return self.made[: len(x)]


class Tokens(torch.nn.Module):
    """Takes whole numbers, for one of the uses that torch has for such alone."""

    def __init__(self, use: str = "embedding") -> None:
        super().__init__()
        self.table, self.use = torch.nn.Embedding(5, 3), use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        uses = {
            "embedding": self.table,
            "one_hot": lambda tokens: torch.nn.functional.one_hot(tokens, 5).float(),
            "places": lambda tokens: self.table.weight[tokens],
            "index_select": lambda tokens: self.table.weight.index_select(0, tokens),
            "take": self.table.weight.take,
            "gather": lambda tokens: self.table.weight.gather(0, tokens.unsqueeze(1)),
        }
        found: torch.Tensor = uses[self.use](x[:, 0])
        return found


class Picky(torch.nn.Module):
    """Of a row without a number above 0 it makes places of no type."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = (torch.tensor([0 for value in row if value > 0]) for row in x)
        return torch.stack([self.weights[each].sum() for each in places])


class Large(torch.nn.Module):
    """A million times what is given, and the logarithms of two shares."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1e3]))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = torch.stack([x[:, 0], 0 * x[:, 0]], 1) * self.scale
        return {"large": x[:, 0] * self.scale * self.scale, "logs": logits.softmax(1).log()}


class Brightness(torch.nn.Module):
    """Mean of an image of any size, in a precision of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.mean(dim=(1, 2, 3)) * self.scale


def not_a_module() -> dict[str, int]:
    return {}


class Bare(torch.nn.Module):
    """One layer, between others."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.before, self.layer = torch.nn.Linear(3, 3), layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(self.before(x))
        return found


class Branch(torch.nn.Module):
    """Leaves out values in one of two branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, self.left_out, torch.clone, (x,))

    def left_out(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, training=self.training)


class Steps(torch.nn.Module):
    """The largest of each series' values, whatever the number of its steps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(1)


class PickySteps(Steps):
    """The same, of series without negative values."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (x < 0).any():
            raise RuntimeError("below zero")
        return super().forward(x)


class AsTheyAre(torch.nn.Module):
    """A value for each that it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Together(torch.nn.Module):
    """The sum of all inputs of a row."""

    def forward(self, **given: torch.Tensor) -> torch.Tensor:
        return torch.stack(
            [each.flatten(1).sum(1) if each.ndim > 1 else each for each in given.values()]
        ).sum(0)
