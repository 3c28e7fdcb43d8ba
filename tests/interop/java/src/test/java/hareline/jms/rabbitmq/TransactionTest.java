package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import hareline.jms.Patience;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Transacted sessions: commit, rollback, and the recover that this client sends after it. */
class TransactionTest extends RabbitCase {
  @Test
  void whatIsSentAppearsAtCommit() throws Exception {
    Queue queue = queue();
    Session own = transacted();
    assertTrue(own.getTransacted());
    send(own, queue, "1", "2");
    assertEquals(0, observer.ready(queue.getQueueName()));
    own.commit();
    observer.awaitReady(queue.getQueueName(), 2);
    assertEquals(List.of("1", "2"), drained(queue, 2));
  }

  @Test
  void whatIsSentVanishesAtRollback() throws Exception {
    Queue queue = queue();
    Session own = transacted();
    send(own, queue, "1");
    own.rollback();
    send(own, queue, "2");
    own.commit();
    assertEquals(List.of("2"), drained(queue, 1));
  }

  @Test
  void whatIsReceivedIsGoneAfterCommit() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = transacted();
    MessageConsumer consumer = own.createConsumer(queue);
    takeTexts(consumer, 2);
    own.commit();
    own.close();
    assertEquals(List.of("3"), drained(queue, 1));
  }

  @Test
  void aTransactionOfManyIsOneStep() throws Exception {
    Queue source = queue();
    Queue target = queue();
    fill(source, numbers(0, 200));
    Session own = transacted();
    MessageConsumer consumer = own.createConsumer(source);
    for (int i = 0; i < 200; i++) {
      own.createProducer(target).send(own.createTextMessage("moved " + takeText(consumer)));
    }
    settle(own);
    assertEquals(0, observer.ready(target.getQueueName()));
    own.commit();
    observer.awaitReady(target.getQueueName(), 200);
    own.close();
    assertEquals(0, observer.ready(source.getQueueName()));
  }

  @Tag("M21")
  @Test
  void rollbackGivesBackWhatWasReceived() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3", "4");
    Session own = transacted();
    MessageConsumer consumer = own.createConsumer(queue);
    assertEquals(List.of("1", "2", "3"), takeTexts(consumer, 3));
    own.rollback();
    observer.awaitReady(queue.getQueueName(), 4);
    Message first = take(consumer);
    assertEquals("1", text(first));
    assertTrue(first.getJMSRedelivered());
    assertEquals(List.of("2", "3", "4"), takeTexts(consumer, 3));
    own.commit();
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }

  @Tag("M21")
  @Test
  void afterRollbackAnotherSessionMayHaveIt() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2");
    Session own = transacted();
    takeTexts(own.createConsumer(queue), 2);
    own.rollback();
    assertEquals(List.of("1", "2"), drained(queue, 2));
  }

  @Tag("M21")
  @Test
  void rollbackUndoesSendingAndReceivingTogether() throws Exception {
    Queue source = queue();
    Queue target = queue();
    fill(source, "1");
    Session own = transacted();
    takeText(own.createConsumer(source));
    send(own, target, "answer");
    own.rollback();
    observer.awaitReady(source.getQueueName(), 1);
    assertEquals(0, observer.ready(target.getQueueName()));
  }

  @Tag("M21")
  @Test
  void rollbackKeepsWhatWasCommittedBefore() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = transacted();
    MessageConsumer consumer = own.createConsumer(queue);
    takeText(consumer);
    own.commit();
    takeText(consumer);
    own.rollback();
    own.rollback(); // nothing to undo
    own.close();
    assertEquals(List.of("2", "3"), drained(queue, 2));
  }

  @Tag("M21")
  @Test
  void rollbackInAListenerRedelivers() throws Exception {
    Queue queue = queue();
    Session own = transacted();
    BlockingQueue<String> seen = new LinkedBlockingQueue<>();
    own.createConsumer(queue)
        .setMessageListener(
            message -> {
              try {
                seen.add(text(message) + (message.getJMSRedelivered() ? " again" : ""));
                if (message.getJMSRedelivered()) {
                  own.commit();
                } else {
                  own.rollback();
                }
              } catch (JMSException failure) {
                seen.add(failure.toString());
              }
            });
    send(queue, "1");
    Patience.until(() -> seen.size() == 2, "it is delivered twice");
    assertEquals(List.of("1", "1 again"), List.copyOf(seen));
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }

  @Tag("M21")
  @Test
  void closingTheSessionGivesBackWhatWasReceived() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2");
    Session own = transacted();
    takeText(own.createConsumer(queue));
    own.close();
    assertEquals(List.of("1", "2"), drained(queue, 2));
  }

  @Tag("M21")
  @Test
  void nackOnRollbackSendsToTheDeadLetterQueue() throws Exception {
    Queue dead = queue();
    Queue queue =
        queue(
            Map.of(
                "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead.getQueueName()));
    fill(queue, "1", "2");
    RMQConnectionFactory nacking = factory();
    nacking.setNackOnRollback(true);
    Session own = open(nacking).createSession(true, Session.SESSION_TRANSACTED);
    MessageConsumer consumer = own.createConsumer(queue);
    takeText(consumer);
    own.rollback();
    observer.awaitReady(dead.getQueueName(), 1);
    assertEquals(List.of("1"), drained(dead, 1));
    assertEquals("2", takeText(consumer));
    own.commit();
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }
}
