/** How the input of a built-in task is read, and how a wrong one is refused. */
package io.taskyard.builtin.input;
