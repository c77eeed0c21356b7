"""The template conv2d_grouped: convolutions of several groups, depthwise ones included."""
