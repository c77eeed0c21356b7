"""Products of 16-bit floats with floats or narrow integers on a CPU, in float32."""
