/** The task type `llm_call`: a model of an OpenAI-compatible endpoint is asked, by LangChain4j. */
package io.taskyard.builtin.llm;
