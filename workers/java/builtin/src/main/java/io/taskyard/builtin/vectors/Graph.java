package io.taskyard.builtin.vectors;

import io.taskyard.builtin.input.Refusal;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.lucene.document.KnnFloatVectorField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.StoredFields;
import org.apache.lucene.index.VectorSimilarityFunction;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.KnnFloatVectorQuery;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.MMapDirectory;

/**
 * An index as a Lucene graph (HNSW) on disk, in which near vectors are found without a look at all.
 */
final class Graph implements AutoCloseable {
  /** Most numbers that a vector of Lucene's may have. */
  private static final int MOST_DIMENSIONS = 1024;

  /** How many more candidates than asked for are looked at: what makes the answer nearly exact. */
  private static final int CANDIDATES = 100;

  private static final String VECTOR = "vector";
  private static final String ID = "id";
  private static final String TEXT = "text";

  private final String model;
  private final int dimensions;
  private final Path folder;
  private final Directory directory;
  private final DirectoryReader reader;

  private Graph(String model, int dimensions, Path folder, Directory directory) throws IOException {
    this.model = model;
    this.dimensions = dimensions;
    this.folder = folder;
    this.directory = directory;
    reader = DirectoryReader.open(directory);
  }

  /**
   * Makes the graph of an index.
   *
   * @param folder an empty one, which goes when the graph is closed
   * @throws Refusal it is no index, or its vectors are too long
   */
  static Graph build(IndexReading index, Path folder)
      throws IOException, Refusal, InterruptedException {
    if (index.dimensions() > MOST_DIMENSIONS) {
      throw Refusal.invalid(
          "the vectors of the index have %d numbers, and an approximate search takes at most %d:"
              + " leave 'approximate' out",
          index.dimensions(), MOST_DIMENSIONS);
    }
    Directory directory = new MMapDirectory(folder);
    try (IndexWriter writer = new IndexWriter(directory, new IndexWriterConfig())) {
      for (IndexReading.Entry each = index.next(); each != null; each = index.next()) {
        writer.addDocument(document(each));
        if (Thread.interrupted()) {
          throw new InterruptedException();
        }
      }
      writer.forceMerge(1);
    }
    return new Graph(index.model(), index.dimensions(), folder, directory);
  }

  private static org.apache.lucene.document.Document document(IndexReading.Entry entry) {
    var document = new org.apache.lucene.document.Document();
    float[] vector = floats(entry.vector());
    if (hasLength(vector)) { // what has no direction is near to nothing
      document.add(new KnnFloatVectorField(VECTOR, vector, VectorSimilarityFunction.COSINE));
    }
    document.add(new StoredField(ID, entry.document().id()));
    document.add(new StoredField(TEXT, entry.document().text()));
    return document;
  }

  String model() {
    return model;
  }

  int dimensions() {
    return dimensions;
  }

  /** The nearest documents, the best first; nearly always the same that an exact search finds. */
  List<Hit> nearest(double[] vector, int most) throws IOException {
    IndexSearcher searcher = new IndexSearcher(reader);
    KnnFloatVectorQuery query = new KnnFloatVectorQuery(VECTOR, floats(vector), most + CANDIDATES);
    StoredFields stored = searcher.storedFields();
    List<Hit> hits = new ArrayList<>();
    for (ScoreDoc each : searcher.search(query, most).scoreDocs) {
      var document = stored.document(each.doc);
      double cosine = 2.0 * each.score - 1; // Lucene's score is (1 + cosine) / 2
      hits.add(new Hit(document.get(ID), cosine, document.get(TEXT)));
    }
    return hits;
  }

  @Override
  public void close() throws IOException {
    reader.close();
    directory.close();
    remove(folder);
  }

  /** Removes a folder with its files. */
  static void remove(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path each : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(each);
      }
    }
  }

  private static float[] floats(double[] numbers) {
    float[] floats = new float[numbers.length];
    for (int at = 0; at < floats.length; at++) {
      floats[at] = (float) numbers[at];
    }
    return floats;
  }

  private static boolean hasLength(float[] vector) {
    for (float each : vector) {
      if (each != 0) {
        return true;
      }
    }
    return false;
  }
}
