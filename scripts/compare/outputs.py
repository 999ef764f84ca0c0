"""Messages that libraries log while they load an output folder."""

import logging


class Warnings(logging.Handler):
    """Keeps what a library logs as a warning or worse."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())
