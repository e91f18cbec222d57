import silf.jojo.Code;
import silf.jojo.JojoException;
import silf.jojo.Message;
import silf.jojo.Node;

/** Between the master and its workers: passes requests on, with its own name, and tells of workers that are lost. */
public class JobsHead extends Code {
    @Override
    public Object handle(Message message) throws JojoException {
        JobsWorker.Asked asked = message.as(JobsWorker.Asked.class);
        return parent.call(new Message(JobsWorker.ASKED,
                new JobsWorker.Asked(self().name(), asked.worker(), asked.job(), asked.inside())));
    }

    @Override
    public void nodeLost(Node node) throws JojoException {
        parent.send(new Message(JobsWorker.LOST, node.name()));
    }
}
