"""A layer and a model as users write them, with parts that Keras does not know."""

from typing import Any

import keras  # noqa: TID253 - a user imports it so


class Doubled(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return 2 * x


@keras.saving.register_keras_serializable("keras_code")
class Subclassed(keras.Model):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.dense = keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)
