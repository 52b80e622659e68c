package io.taskyard.worker.link;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Makes channels to the scheduler, each with a connection of its own. */
public record Channels(String address, String token, Optional<Path> certificates)
    implements Supplier<ManagedChannel> {
  private static final int MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  @Override
  public ManagedChannel get() {
    return NettyChannelBuilder.forTarget(address, credentials())
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .keepAliveTime(20, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS)
        .disableRetry() // `Retries` does, and the scheduler offers no other rule
        .intercept(MetadataUtils.newAttachHeadersInterceptor(headers()))
        .build();
  }

  private Metadata headers() {
    Metadata headers = new Metadata();
    if (!token.isEmpty()) {
      headers.put(AUTHORIZATION, "Bearer " + token);
    }
    return headers;
  }

  private ChannelCredentials credentials() {
    if (certificates.isEmpty()) {
      return InsecureChannelCredentials.create();
    }
    try {
      return TlsChannelCredentials.newBuilder().trustManager(certificates.get().toFile()).build();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public String toString() { // without the token
    return "Channels[" + address + "]";
  }
}
