"""Built-in models: from normalised images to what their task predicts, compiled."""
