package io.taskyard.builtin.llm;

import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.concurrent.Executor;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/** The connection of one attempt, which is kept hold of so that a cancel can close it at once. */
final class Connection implements HttpClient.Builder, AutoCloseable {
  private static final Duration CONNECT = Duration.ofSeconds(10);

  private final HttpClient.Builder builder =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(CONNECT);
  private HttpClient client;

  @Override
  public synchronized HttpClient build() {
    if (client == null) {
      client = builder.build();
    }
    return client;
  }

  @Override
  public synchronized void close() {
    if (client != null) {
      client.shutdownNow();
    }
  }

  /** Is not heard: an answer may take as long as the attempt, a connection may not. */
  @Override
  public HttpClient.Builder connectTimeout(Duration duration) {
    return this;
  }

  @Override
  public HttpClient.Builder cookieHandler(CookieHandler handler) {
    builder.cookieHandler(handler);
    return this;
  }

  @Override
  public HttpClient.Builder sslContext(SSLContext context) {
    builder.sslContext(context);
    return this;
  }

  @Override
  public HttpClient.Builder sslParameters(SSLParameters parameters) {
    builder.sslParameters(parameters);
    return this;
  }

  @Override
  public HttpClient.Builder executor(Executor executor) {
    builder.executor(executor);
    return this;
  }

  @Override
  public HttpClient.Builder followRedirects(HttpClient.Redirect policy) {
    builder.followRedirects(policy);
    return this;
  }

  @Override
  public HttpClient.Builder version(HttpClient.Version version) {
    return this;
  }

  @Override
  public HttpClient.Builder priority(int priority) {
    builder.priority(priority);
    return this;
  }

  @Override
  public HttpClient.Builder proxy(ProxySelector selector) {
    builder.proxy(selector);
    return this;
  }

  @Override
  public HttpClient.Builder authenticator(Authenticator authenticator) {
    builder.authenticator(authenticator);
    return this;
  }
}
