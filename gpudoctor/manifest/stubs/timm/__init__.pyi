"""What is known of timm beside its models."""
