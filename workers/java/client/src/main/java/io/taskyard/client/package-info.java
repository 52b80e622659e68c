/** Submits tasks, starts runs of workflows, waits for results, reads logs and moves artifacts. */
package io.taskyard.client;
