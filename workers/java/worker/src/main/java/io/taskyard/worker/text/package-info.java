/** Texts as the contract wants them: valid Unicode, of a bounded size in UTF-8. */
package io.taskyard.worker.text;
