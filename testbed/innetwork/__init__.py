"""From a plan's trees to what controller, accelerators and workers are told of them."""
