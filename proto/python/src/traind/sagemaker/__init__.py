"""An estimator with the signature of `sagemaker.huggingface.HuggingFace`, whose jobs run on a traind daemon."""

from traind.sagemaker.estimator import HuggingFace

__all__ = ["HuggingFace"]
