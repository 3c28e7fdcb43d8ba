package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import hareline.jms.Patience;
import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** What each acknowledge mode leaves in the queue. */
class AcknowledgeTest extends RabbitCase {
  @Test
  void autoAcknowledgesWhatReceiveReturns() throws Exception {
    acknowledgesWhatReceiveReturns(Session.AUTO_ACKNOWLEDGE);
  }

  @Test
  void dupsOkAcknowledgesWhatReceiveReturns() throws Exception {
    acknowledgesWhatReceiveReturns(Session.DUPS_OK_ACKNOWLEDGE);
  }

  private void acknowledgesWhatReceiveReturns(int mode) throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = session(mode);
    assertEquals(mode, own.getAcknowledgeMode());
    MessageConsumer consumer = own.createConsumer(queue);
    assertEquals(List.of("1", "2"), takeTexts(consumer, 2));
    own.close();
    assertEquals(List.of("3"), drained(queue, 1));
  }

  @Test
  void autoAcknowledgesWhatTheListenerGets() throws Exception {
    acknowledgesWhatTheListenerGets(Session.AUTO_ACKNOWLEDGE);
  }

  @Test
  void dupsOkAcknowledgesWhatTheListenerGets() throws Exception {
    acknowledgesWhatTheListenerGets(Session.DUPS_OK_ACKNOWLEDGE);
  }

  private void acknowledgesWhatTheListenerGets(int mode) throws Exception {
    Queue queue = queue();
    Session own = session(mode);
    Inbox inbox = new Inbox(own.createConsumer(queue));
    send(queue, "1", "2", "3");
    assertEquals(List.of("1", "2", "3"), inbox.takeTexts(3));
    own.close();
    send(queue, "4");
    assertEquals(List.of("4"), drained(queue, 1));
  }

  @Test
  void clientAcknowledgesAMessageAndAllBeforeIt() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3", "4");
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    assertEquals(List.of("1", "2"), takeTexts(consumer, 2));
    take(consumer).acknowledge();
    assertEquals("4", takeText(consumer));
    own.close();
    assertEquals(List.of("4"), drained(queue, 1));
  }

  @Test
  void clientUnacknowledgedMessagesComeBackInTheirOrder() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    assertEquals(List.of("1", "2"), takeTexts(own.createConsumer(queue), 2));
    own.close();
    MessageConsumer consumer = session.createConsumer(queue);
    Message first = take(consumer);
    assertEquals("1", text(first));
    assertTrue(first.getJMSRedelivered());
    assertEquals(2, first.getIntProperty("JMSXDeliveryCount"));
    assertEquals("2", takeText(consumer));
    Message third = take(consumer);
    assertFalse(third.getJMSRedelivered());
    assertEquals(1, third.getIntProperty("JMSXDeliveryCount"));
  }

  @Test
  void clientAcknowledgesFromAListener() throws Exception {
    Queue queue = queue();
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(queue));
    send(queue, "1", "2", "3");
    inbox.take();
    inbox.take().acknowledge();
    inbox.take();
    own.close();
    assertEquals(List.of("3"), drained(queue, 1));
  }

  @Test
  void recoverRedeliversWhatIsUnacknowledged() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    take(consumer).acknowledge();
    assertEquals(List.of("2", "3"), takeTexts(consumer, 2));
    own.recover();
    Message again = take(consumer);
    assertEquals("2", text(again));
    assertTrue(again.getJMSRedelivered());
    Message last = take(consumer);
    assertEquals("3", text(last));
    last.acknowledge();
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }

  @Test
  void recoverRedeliversToAListener() throws Exception {
    Queue queue = queue();
    Session own = session(Session.CLIENT_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(queue));
    send(queue, "1", "2");
    assertEquals(List.of("1", "2"), inbox.takeTexts(2));
    own.recover();
    assertEquals("1", text(inbox.take()));
    Message last = inbox.take();
    assertEquals("2", text(last));
    assertTrue(last.getJMSRedelivered());
    last.acknowledge();
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()));
  }

  @Test
  void individualAcknowledgesOneMessage() throws Exception {
    Queue queue = queue();
    fill(queue, "1", "2", "3");
    Session own = session(INDIVIDUAL_ACKNOWLEDGE);
    MessageConsumer consumer = own.createConsumer(queue);
    take(consumer);
    Message second = take(consumer);
    take(consumer);
    second.acknowledge();
    second.acknowledge(); // again: the client knows, and says nothing
    own.close();
    assertEquals(List.of("1", "3"), drained(queue, 2));
  }

  @Test
  void individualAcknowledgesFromAListener() throws Exception {
    Queue queue = queue();
    Session own = session(INDIVIDUAL_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(queue));
    send(queue, "1", "2", "3");
    inbox.take();
    inbox.take();
    inbox.take().acknowledge();
    own.close();
    assertEquals(List.of("1", "2"), drained(queue, 2));
  }

  @Test
  void aPrefetchLimitsWhatAListenerHasUnacknowledged() throws Exception {
    Queue queue = queue();
    fill(queue, numbers(0, 5));
    RMQConnectionFactory limited = factory();
    limited.setChannelsQos(2);
    Session own = open(limited).createSession(Session.CLIENT_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(queue));
    inbox.take();
    Message second = inbox.take();
    observer.awaitReady(queue.getQueueName(), 3);
    assertEquals(0, inbox.size());
    second.acknowledge();
    assertEquals(List.of("2", "3"), inbox.takeTexts(2));
    observer.awaitReady(queue.getQueueName(), 1);
  }

  @Test
  void aListenerThatThrowsGivesItsMessageBack() throws Exception {
    Queue queue = queue();
    RMQConnectionFactory requeueing = factory();
    requeueing.setRequeueOnMessageListenerException(true);
    Connection own = open(requeueing);
    AtomicInteger calls = new AtomicInteger();
    own.createSession(Session.AUTO_ACKNOWLEDGE)
        .createConsumer(queue)
        .setMessageListener(
            message -> {
              calls.incrementAndGet();
              throw new IllegalStateException("the listener's own fault");
            });
    send(queue, "1");
    // The client gives it back, and cancels its consumer afterwards; it may come again in between.
    Patience.until(() -> calls.get() > 0, "the listener is called");
    Message again = take(session.createConsumer(queue));
    assertEquals("1", text(again));
    assertTrue(again.getJMSRedelivered());
  }

  @Test
  void aListenerThatTakesTooLongGivesItsMessageBack() throws Exception {
    Queue queue = queue();
    RMQConnectionFactory requeueing = factory();
    requeueing.setRequeueOnMessageListenerException(true);
    requeueing.setRequeueOnTimeout(true);
    requeueing.setOnMessageTimeoutMs(100);
    BlockingQueue<Boolean> redelivered = new LinkedBlockingQueue<>();
    BlockingQueue<Boolean> never = new LinkedBlockingQueue<>();
    open(requeueing)
        .createSession(Session.AUTO_ACKNOWLEDGE)
        .createConsumer(queue)
        .setMessageListener(
            message -> {
              try {
                redelivered.add(message.getJMSRedelivered());
                if (redelivered.size() == 1) {
                  never.take();
                }
              } catch (Exception interrupted) {
                Thread.currentThread().interrupt();
              }
            });
    send(queue, "1");
    Patience.until(() -> redelivered.size() == 2, "it is delivered again");
    assertEquals(List.of(false, true), List.copyOf(redelivered));
  }
}
