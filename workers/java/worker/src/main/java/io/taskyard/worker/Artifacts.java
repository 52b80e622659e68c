package io.taskyard.worker;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;

/**
 * Large values of tasks: each is named by a URI (`artifact://ID`) that may stand in any output or
 * input.
 */
public interface Artifacts {

  /**
   * Opens an artifact for reading. Its SHA-256 is checked at the end of the stream.
   *
   * @throws IOException there is no such artifact, or it cannot be had now
   */
  InputStream open(String uri) throws IOException, InterruptedException;

  /**
   * Fetches an artifact into a file, which is whole or not there.
   *
   * @throws IOException there is no such artifact, or it cannot be had now
   */
  void download(String uri, Path to) throws IOException, InterruptedException;

  /**
   * Stores what a stream gives.
   *
   * @param name for people
   * @param mediaType such as `application/json`
   * @return the URI that names it
   * @throws IOException it could not be stored
   */
  String upload(InputStream content, String name, String mediaType)
      throws IOException, InterruptedException;
}
