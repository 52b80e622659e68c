/** Brings artifacts to the scheduler and from it, through restarts of either side. */
package io.taskyard.worker.artifacts;
