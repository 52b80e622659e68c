package io.taskyard.builtin.vectors;

import io.taskyard.builtin.input.Refusal;
import io.taskyard.worker.Artifacts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Stream;

/**
 * The graphs of the indexes that were searched approximately last. An artifact never changes, so
 * its graph is made once, and is kept until others were used more lately.
 */
public final class Graphs {
  private static final int KEPT = 8;
  private static final String PREFIX = "taskyard-graph-";

  // One lock for all: who asks for a graph that is being made waits for it. No monitor: it would
  // hold the carrier of the virtual threads that wait.
  private final ReentrantLock lock = new ReentrantLock();
  private final Map<String, Graph> graphs = new LinkedHashMap<>(KEPT, 0.75f, true);
  private final Path temporary;

  /** Keeps graphs in the folder for temporary files, without those of processes that are gone. */
  public Graphs() {
    temporary = Path.of(System.getProperty("java.io.tmpdir"));
    removeOrphans();
  }

  /**
   * The graph of an index.
   *
   * @throws Refusal the artifact is no index
   */
  Graph of(String uri, Artifacts artifacts) throws IOException, Refusal, InterruptedException {
    lock.lockInterruptibly();
    try {
      Graph known = graphs.get(uri);
      if (known == null) {
        known = build(uri, artifacts);
        makeRoom();
        graphs.put(uri, known);
      }
      return known;
    } finally {
      lock.unlock();
    }
  }

  private Graph build(String uri, Artifacts artifacts)
      throws IOException, Refusal, InterruptedException {
    Path folder =
        Files.createTempDirectory(temporary, PREFIX + ProcessHandle.current().pid() + "-");
    boolean built = false;
    try (IndexReading index = new IndexReading(artifacts.open(uri))) {
      Graph graph = Graph.build(index, folder);
      built = true;
      return graph;
    } finally {
      if (!built) {
        Graph.remove(folder);
      }
    }
  }

  private void makeRoom() throws IOException {
    Iterator<Graph> eldest = graphs.values().iterator();
    while (graphs.size() >= KEPT) {
      Graph graph = eldest.next();
      eldest.remove();
      graph.close();
    }
  }

  private void removeOrphans() {
    try (Stream<Path> found = Files.list(temporary)) {
      for (Path each : found.filter(Graphs::isOrphan).toList()) {
        Graph.remove(each);
      }
    } catch (IOException error) {
      // Another worker removes them too, or they are another user's.
    }
  }

  private static boolean isOrphan(Path folder) {
    String name = folder.getFileName().toString();
    if (!name.matches(PREFIX + "\\d{1,9}-.*")) {
      return false;
    }
    String rest = name.substring(PREFIX.length());
    long pid = Long.parseLong(rest.substring(0, rest.indexOf('-')));
    Optional<ProcessHandle> owner = ProcessHandle.of(pid);
    return owner.isEmpty();
  }
}
