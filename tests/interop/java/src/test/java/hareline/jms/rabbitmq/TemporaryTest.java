package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import com.rabbitmq.jms.client.HandleAnyReplyToStrategy;
import hareline.jms.Patience;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Temporary destinations, and requests that are answered through them or by direct reply-to. */
class TemporaryTest extends RabbitCase {
  private static final String DIRECT_REPLY_TO = "amq.rabbitmq.reply-to";

  /** The client's recipe for direct reply-to: a destination of that name and no resources. */
  private static RMQDestination directReplyTo() {
    return new RMQDestination(DIRECT_REPLY_TO, "", DIRECT_REPLY_TO, DIRECT_REPLY_TO);
  }

  @Test
  void aTemporaryQueueTakesAndGives() throws Exception {
    TemporaryQueue queue = session.createTemporaryQueue();
    MessageConsumer consumer = session.createConsumer(queue);
    send(queue, "1", "2");
    assertEquals(List.of("1", "2"), takeTexts(consumer, 2));
  }

  @Test
  void aTemporaryQueueIsItsConnectionsOwn() throws Exception {
    TemporaryQueue queue = session.createTemporaryQueue();
    session.createConsumer(queue);
    Session foreign = open().createSession(Session.AUTO_ACKNOWLEDGE);
    RMQDestination copy = new RMQDestination(queue.getQueueName(), true, true);
    assertThrows(JMSException.class, () -> foreign.createConsumer(copy));
    send(queue, "still there");
    assertEquals("still there", takeText(session.createConsumer(queue)));
  }

  @Test
  void aTemporaryQueueGoesWithItsConnection() throws Exception {
    Connection own = open();
    Session ownSession = own.createSession(Session.AUTO_ACKNOWLEDGE);
    TemporaryQueue queue = ownSession.createTemporaryQueue();
    String name = queue.getQueueName();
    send(ownSession, queue, "1");
    assertEquals("1", takeText(ownSession.createConsumer(queue)));
    own.close();
    Patience.until(() -> !observer.exists(name), "the temporary queue is gone");
  }

  @Test
  void aTemporaryTopicReachesItsSubscribers() throws Exception {
    TemporaryTopic topic = session.createTemporaryTopic();
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer two = session(Session.AUTO_ACKNOWLEDGE).createConsumer(topic);
    TemporaryTopic other = session.createTemporaryTopic();
    MessageConsumer ofOther = session.createConsumer(other);
    send(topic, "1");
    assertEquals("1", takeText(one));
    assertEquals("1", takeText(two));
    assertNothing(ofOther);
  }

  @Test
  void aRequestIsAnsweredByATemporaryQueue() throws Exception {
    Queue requests = queue();
    RMQConnectionFactory serving = factory();
    serving.setDeclareReplyToDestination(false); // the queue is another connection's
    Session server = open(serving).createSession(Session.AUTO_ACKNOWLEDGE);
    answerEachRequest(server, requests);
    TemporaryQueue replies = session.createTemporaryQueue();
    MessageConsumer consumer = session.createConsumer(replies);
    List<String> asked = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      Message request = session.createTextMessage("question " + i);
      request.setJMSReplyTo(replies);
      request.setJMSCorrelationID("number " + i);
      session.createProducer(requests).send(request);
      asked.add("number " + i + ": answer to question " + i);
    }
    List<String> answered = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      Message answer = take(consumer);
      answered.add(answer.getJMSCorrelationID() + ": " + text(answer));
    }
    assertEquals(asked, answered);
  }

  @Tag("S9")
  @Test
  void aRequestIsAnsweredByDirectReplyTo() throws Exception {
    Queue requests = queue();
    answerEachRequest(open().createSession(Session.AUTO_ACKNOWLEDGE), requests);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    RMQDestination replies = directReplyTo();
    Inbox inbox = new Inbox(own.createConsumer(replies));
    for (int i = 0; i < 20; i++) {
      Message request = own.createTextMessage("question " + i);
      request.setJMSReplyTo(replies);
      request.setJMSCorrelationID("number " + i);
      own.createProducer(requests).send(request);
      Message answer = inbox.take();
      assertEquals("number " + i, answer.getJMSCorrelationID());
      assertEquals("answer to question " + i, bytesOf(answer));
    }
  }

  @Tag("S9")
  @Test
  void severalAskByDirectReplyToAtOnce() throws Exception {
    Queue requests = queue();
    answerEachRequest(open().createSession(Session.AUTO_ACKNOWLEDGE), requests);
    List<Inbox> inboxes = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      Session own = session(Session.AUTO_ACKNOWLEDGE);
      RMQDestination replies = directReplyTo();
      inboxes.add(new Inbox(own.createConsumer(replies)));
      Message request = own.createTextMessage("of asker " + i);
      request.setJMSReplyTo(replies);
      own.createProducer(requests).send(request);
    }
    for (int i = 0; i < 4; i++) {
      assertEquals("answer to of asker " + i, bytesOf(inboxes.get(i).take()));
      assertEquals(0, inboxes.get(i).size());
    }
  }

  @Tag("S9")
  @Test
  void anAnswerToNobodyIsLostQuietly() throws Exception {
    Queue requests = queue();
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    RMQDestination replies = directReplyTo();
    new Inbox(own.createConsumer(replies));
    Message request = own.createTextMessage("asked, then gone");
    request.setJMSReplyTo(replies);
    own.createProducer(requests).send(request);
    Message received = take(session.createConsumer(requests));
    Destination replyTo = received.getJMSReplyTo();
    own.close();
    send(replyTo, "too late");
    send(requests, "the session works");
    assertEquals("the session works", takeText(session.createConsumer(requests)));
  }

  @Test
  void anAnswerMayGoToAnyQueue() throws Exception {
    Queue requests = queue();
    Queue replies = queue();
    RMQConnectionFactory any = factory();
    any.setReplyToStrategy(HandleAnyReplyToStrategy.INSTANCE);
    Session server = open(any).createSession(Session.AUTO_ACKNOWLEDGE);
    Message request = session.createTextMessage("question");
    request.setJMSReplyTo(replies);
    session.createProducer(requests).send(request);
    Destination replyTo = take(server.createConsumer(requests)).getJMSReplyTo();
    send(server, replyTo, "answer");
    observer.awaitReady(replies.getQueueName(), 1);
    assertEquals("answer", new String(observer.take(replies.getQueueName()).getBody(), "UTF-8"));
  }

  @Test
  void closingAConsumerKeepsATemporaryQueue() throws Exception {
    TemporaryQueue queue = session.createTemporaryQueue();
    session.createConsumer(queue).close();
    assertTrue(ownsQueue(session, queue));
    send(queue, "1");
    assertEquals("1", takeText(session.createConsumer(queue)));
    queue.delete(); // the client does nothing here
    assertTrue(ownsQueue(session, queue));
  }

  /** Exclusive queues are locked to others, so the owner must look. */
  private static boolean ownsQueue(Session owner, TemporaryQueue queue) throws JMSException {
    assertFalse(owner.createBrowser(queue).getEnumeration().hasMoreElements());
    return true;
  }

  private static void answerEachRequest(Session server, Queue requests) throws JMSException {
    server
        .createConsumer(requests)
        .setMessageListener(
            request -> {
              try {
                Message answer = server.createTextMessage("answer to " + text(request));
                answer.setJMSCorrelationID(request.getJMSCorrelationID());
                server.createProducer(request.getJMSReplyTo()).send(answer);
              } catch (JMSException failure) {
                throw new IllegalStateException(failure);
              }
            });
  }

  private static String bytesOf(Message message) throws Exception {
    return new String(message.getBody(byte[].class), "UTF-8");
  }
}
