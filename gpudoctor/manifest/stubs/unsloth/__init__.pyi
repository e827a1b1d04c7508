"""Language models that a Trainer of Transformers or TRL fine-tunes."""
