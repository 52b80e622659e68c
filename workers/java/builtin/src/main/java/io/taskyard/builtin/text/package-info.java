/** The operations of `text_process`: pure functions, with the results that every worker gives. */
package io.taskyard.builtin.text;
