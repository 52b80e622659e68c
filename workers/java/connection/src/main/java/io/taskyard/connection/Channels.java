package io.taskyard.connection;

import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptor;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.DoubleSupplier;

/** Makes channels to a scheduler. The caller closes them. */
public final class Channels {
  /** Largest message that is received, in bytes; the scheduler sends none that is larger. */
  public static final int MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  /**
   * Returns a channel; it connects with its first call, and again whenever the connection is lost.
   *
   * @throws IllegalArgumentException the certificates cannot be used
   */
  public static ManagedChannel open(ConnectionSettings settings) {
    return open(settings, RetryingInterceptor::draw);
  }

  static ManagedChannel open(ConnectionSettings settings, DoubleSupplier random) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(settings.address(), credentials(settings))
            .keepAliveTime(30, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS);
    // A lost connection is tried anew after a second at the earliest, when the repeats are over.
    AtomicReference<ManagedChannel> made = new AtomicReference<>();
    Runnable connectNow = () -> made.get().resetConnectBackoff();
    var retrying = new RetryingInterceptor(settings.timeout(), random, connectNow);
    made.set(prepare(builder, settings, retrying).build());
    return made.get();
  }

  /** Gives any channel what every channel to a scheduler has: token, repeats, receive limit. */
  public static ManagedChannelBuilder<?> prepare(
      ManagedChannelBuilder<?> builder, ConnectionSettings settings) {
    return prepare(builder, settings, new RetryingInterceptor(settings.timeout()));
  }

  private static ManagedChannelBuilder<?> prepare(
      ManagedChannelBuilder<?> builder, ConnectionSettings settings, RetryingInterceptor retrying) {
    // Only the retrying interceptor repeats: two that do would multiply.
    builder.maxInboundMessageSize(MAX_MESSAGE_BYTES).disableRetry();
    settings.token().ifPresent(token -> builder.intercept(bearer(token)));
    // The last one added is called first, so each repeat passes the others.
    return builder.intercept(retrying);
  }

  private static ClientInterceptor bearer(String token) {
    Metadata headers = new Metadata();
    headers.put(AUTHORIZATION, "Bearer " + token);
    return MetadataUtils.newAttachHeadersInterceptor(headers);
  }

  private static ChannelCredentials credentials(ConnectionSettings settings) {
    return settings.ca().map(Channels::trusting).orElseGet(InsecureChannelCredentials::create);
  }

  private static ChannelCredentials trusting(Path ca) {
    try {
      return TlsChannelCredentials.newBuilder().trustManager(ca.toFile()).build();
    } catch (IOException error) {
      throw new IllegalArgumentException(
          "the certificates in " + ca + " cannot be read: " + error.getMessage(), error);
    }
  }
}
