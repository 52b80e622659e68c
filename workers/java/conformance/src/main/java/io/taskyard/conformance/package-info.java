/** The task types that the conformance kit asks for (docs/write-a-worker.md). */
package io.taskyard.conformance;
