/** The task type `data_pipeline`: tables out of artifacts, put through steps, into an artifact. */
package io.taskyard.builtin.tables;
