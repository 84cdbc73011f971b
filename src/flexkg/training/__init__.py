"""From a recipe to a trained model: batches on the device, one loop, checkpoints that resume exactly."""
