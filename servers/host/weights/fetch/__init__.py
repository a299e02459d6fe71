"""Downloads of models from the Hugging Face Hub: in a child process that may be killed any time."""
