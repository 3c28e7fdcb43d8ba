package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;

import hareline.jms.Patience;
import jakarta.jms.CompletionListener;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Topic;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Test;

/** Asynchronous sending, which is publisher confirms. */
class AsyncSendTest extends RabbitCase {
  /** The texts of the messages that a completion listener was told of, in order. */
  private static final class Completions implements CompletionListener {
    final BlockingQueue<String> completed = new LinkedBlockingQueue<>();
    final BlockingQueue<String> refused = new LinkedBlockingQueue<>();

    @Override
    public void onCompletion(Message message) {
      completed.add(textOf(message));
    }

    @Override
    public void onException(Message message, Exception exception) {
      refused.add(textOf(message));
    }

    void await(int completions, int refusals) throws Exception {
      Patience.until(
          () -> completed.size() >= completions && refused.size() >= refusals,
          completions + " completions and " + refusals + " refusals");
      assertEquals(completions, completed.size(), completed::toString);
      assertEquals(refusals, refused.size(), refused::toString);
    }

    private static String textOf(Message message) {
      try {
        return text(message);
      } catch (JMSException failure) {
        return failure.toString();
      }
    }
  }

  @Test
  void eachPersistentMessageCompletesOnce() throws Exception {
    eachMessageCompletesOnce(DeliveryMode.PERSISTENT, DeliveryMode.PERSISTENT);
  }

  @Test
  void eachTransientMessageCompletesOnce() throws Exception {
    eachMessageCompletesOnce(DeliveryMode.NON_PERSISTENT, DeliveryMode.NON_PERSISTENT);
  }

  /**
   * A broker that confirms transient messages before older persistent ones makes this client forget
   * some: it takes the first confirm that it skips to for the lowest one that is still open.
   */
  @Test
  void bothKindsInTurnCompleteOnce() throws Exception {
    onlyHareline();
    eachMessageCompletesOnce(DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT);
  }

  private void eachMessageCompletesOnce(int evenMode, int oddMode) throws Exception {
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    Completions completions = new Completions();
    for (int i = 0; i < 100; i++) {
      producer.setDeliveryMode(i % 2 == 0 ? evenMode : oddMode);
      producer.send(session.createTextMessage(Integer.toString(i)), completions);
    }
    completions.await(100, 0);
    assertEquals(
        new TreeSet<>(List.of(numbers(0, 100))), new TreeSet<>(completions.completed));
    assertEquals(List.of(numbers(0, 100)), drained(queue, 100));
  }

  @Test
  void aCompletedMessageIsInItsQueue() throws Exception {
    Queue queue = queue();
    MessageProducer producer = session.createProducer(queue);
    Completions completions = new Completions();
    for (int i = 1; i <= 5; i++) {
      producer.send(session.createTextMessage(Integer.toString(i)), completions);
      completions.await(i, 0);
      assertEquals(i, observer.ready(queue.getQueueName()));
    }
  }

  @Test
  void aMessageThatAFullQueueRefusesFails() throws Exception {
    Queue queue = queue(Map.of("x-max-length", 2, "x-overflow", "reject-publish"));
    MessageProducer producer = session.createProducer(queue);
    Completions completions = new Completions();
    for (int i = 1; i <= 2; i++) {
      producer.send(session.createTextMessage("fits " + i), completions);
      completions.await(i, 0);
    }
    producer.send(session.createTextMessage("too many"), completions);
    completions.await(2, 1);
    assertEquals(List.of("too many"), List.copyOf(completions.refused));
    assertEquals(List.of("fits 1", "fits 2"), drained(queue, 2));
  }

  @Test
  void aMessageToATopicWithoutSubscribersCompletes() throws Exception {
    Topic topic = topic();
    Completions completions = new Completions();
    session.createProducer(topic).send(session.createTextMessage("nobody"), completions);
    completions.await(1, 0);
    MessageConsumer consumer = session.createConsumer(topic);
    session.createProducer(topic).send(session.createTextMessage("somebody"), completions);
    completions.await(2, 0);
    assertEquals("somebody", takeText(consumer));
  }
}
