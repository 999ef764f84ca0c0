"""The cases, by subject. Importing a module registers its cases."""

from cases import arguments, configs, data_files, labels, language_models, questions, tokenizer_files, weights, words  # noqa: F401
