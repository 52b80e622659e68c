package io.taskyard.builtin.vectors;

import dev.langchain4j.data.embedding.Embedding;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.model.embedding.EmbeddingModel;
import dev.langchain4j.model.embedding.onnx.allminilml6v2.AllMiniLmL6V2EmbeddingModel;
import java.util.ArrayList;
import java.util.List;

/**
 * The model `all-minilm-l6-v2` in this process: it knows meanings, in 384 dimensions. Its weights
 * are in the jar, and are loaded when it is first used.
 */
final class MiniLm implements VectorModel {
  static final String NAME = "all-minilm-l6-v2";

  /** How many texts are worked on before a cancel is looked at. */
  private static final int BATCH = 32;

  private static final class Loaded {
    static final EmbeddingModel MODEL = new AllMiniLmL6V2EmbeddingModel();
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public int dimensions() {
    return 384;
  }

  @Override
  public List<double[]> embed(List<String> texts) throws InterruptedException {
    List<double[]> vectors = new ArrayList<>(texts.size());
    for (int start = 0; start < texts.size(); start += BATCH) {
      if (Thread.interrupted()) {
        throw new InterruptedException();
      }
      List<String> batch = texts.subList(start, Math.min(start + BATCH, texts.size()));
      List<TextSegment> segments = batch.stream().map(TextSegment::from).toList();
      Loaded.MODEL.embedAll(segments).content().forEach(each -> vectors.add(numbers(each)));
    }
    return vectors;
  }

  private static double[] numbers(Embedding embedding) {
    float[] vector = embedding.vector();
    double[] numbers = new double[vector.length];
    for (int at = 0; at < vector.length; at++) {
      numbers[at] = VectorModel.rounded(vector[at]);
    }
    return numbers;
  }
}
