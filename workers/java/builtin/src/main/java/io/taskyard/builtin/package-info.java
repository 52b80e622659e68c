/** The built-in task types: what a Java worker runs without any code of its user. */
package io.taskyard.builtin;
