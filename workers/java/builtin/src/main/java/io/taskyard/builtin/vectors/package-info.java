/** Vectors of texts: the models that make them, the file they are kept in, and what is nearest. */
package io.taskyard.builtin.vectors;
