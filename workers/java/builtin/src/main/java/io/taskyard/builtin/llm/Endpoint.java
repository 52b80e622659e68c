package io.taskyard.builtin.llm;

import java.util.Map;
import java.util.Optional;

/**
 * Who is asked.
 *
 * @param address up to the path that calls are appended to, such as https://host/v1
 * @param key sent as a bearer token; null: none is
 * @param model of tasks that name none
 */
public record Endpoint(String address, String key, String model) {
  private static final String SETTING = "TASKYARD_LLM_";

  /** The endpoint that an environment names; empty when it names none. */
  public static Optional<Endpoint> of(Map<String, String> environment) {
    String address = environment.getOrDefault(SETTING + "BASE_URL", "");
    String key = environment.getOrDefault(SETTING + "API_KEY", "");
    String model = environment.getOrDefault(SETTING + "MODEL", "gpt-4o-mini");
    return address.isEmpty()
        ? Optional.empty()
        : Optional.of(new Endpoint(address, key.isEmpty() ? null : key, model));
  }

  /** Neither key nor query of it stands anywhere. */
  @Override
  public String toString() {
    return address.replaceAll("[?#].*", "").replaceAll("//[^/@]*@", "//");
  }

  /** A text without the key, which an endpoint may repeat. */
  String withoutKey(String text) {
    return key == null || key.length() < 4 ? text : text.replace(key, "[hidden]");
  }
}
