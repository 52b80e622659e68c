/** JSON of inputs, outputs and checkpoints: what goes in comes out, digit by digit. */
package io.taskyard.worker.json;
