/** The calls to the scheduler: what the contract says, and gRPC's errors as ours. */
package io.taskyard.worker.link;
