"""What the kind `xgboost` is made of."""
