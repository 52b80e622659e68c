/** The worker's settings: one record, checked at once, from the environment that it is given. */
package io.taskyard.worker.settings;
