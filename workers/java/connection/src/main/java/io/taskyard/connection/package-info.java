/** The way to a scheduler that clients and workers share; knows no service and no task. */
package io.taskyard.connection;
