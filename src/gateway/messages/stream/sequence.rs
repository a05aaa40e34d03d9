//! Brings the events of a stream into the order of the grammar: one block after the other. Pure.
//!
//! Events of a block wait until every block that started before it has ended. A block that is never stopped ends with
//! the answer, or where its index is used again. Honest streams are in this order already, so nothing waits.

use std::collections::VecDeque;

use crate::{
    exchange::error::{CALLS_MAX, Fault, ShapeError},
    wire::json::Document,
};

/// An event of the block that is open.
#[derive(Clone, Debug)]
pub enum Step {
    /// `content_block_start`; the block before it was stopped.
    Start(Document),
    /// `content_block_delta`
    Delta(Document),
    /// `content_block_stop`
    Stop,
}

struct OpenBlock {
    index: u64,
    /// Events that wait for earlier blocks.
    waiting: Vec<Step>,
    stopped: bool,
}

/// Blocks that have started and not ended.
#[derive(Default)]
pub struct Sequencer {
    /// In the order of their starts; the events of the first pass at once.
    open: VecDeque<OpenBlock>,
    /// Number of blocks so far.
    count: usize,
    /// Bytes of waiting events.
    pub held_bytes: usize,
}

impl Sequencer {
    /// Handles the start of a block; `steps` gets what may be handled now.
    ///
    /// # Errors
    /// [`ShapeError::TooMany`].
    pub fn start(&mut self, index: u64, document: Document, steps: &mut Vec<Step>) -> Result<(), Fault> {
        self.count += 1;
        if self.count > CALLS_MAX {
            return Err(ShapeError::TooMany.into());
        }
        self.stop(index, steps);
        self.open.push_back(OpenBlock { index, waiting: Vec::new(), stopped: false });
        self.pass(self.open.len() - 1, Step::Start(document), steps);
        Ok(())
    }

    /// Handles a delta.
    ///
    /// # Errors
    /// [`Fault`] if no such block is open.
    pub fn delta(&mut self, index: u64, document: Document, steps: &mut Vec<Step>) -> Result<(), Fault> {
        let at = self.open.iter().rposition(|block| block.index == index && !block.stopped);
        let at = at.ok_or(Fault::Unknown("a delta of a block that isn't open"))?;
        self.pass(at, Step::Delta(document), steps);
        Ok(())
    }

    /// Returns whether a delta of this block is handled at once.
    pub fn passes(&self, index: u64) -> bool {
        self.open.front().is_some_and(|block| block.index == index && !block.stopped)
    }

    /// Handles the end of a block; an end without a block is nothing.
    pub fn stop(&mut self, index: u64, steps: &mut Vec<Step>) {
        let Some(block) = self.open.iter_mut().rfind(|block| block.index == index && !block.stopped) else { return };
        block.stopped = true;
        self.advance(steps);
    }

    /// Ends all blocks.
    pub fn finish(&mut self, steps: &mut Vec<Step>) {
        self.open.iter_mut().for_each(|block| block.stopped = true);
        self.advance(steps);
    }

    fn pass(&mut self, at: usize, step: Step, steps: &mut Vec<Step>) {
        if at == 0 {
            return steps.push(step);
        }
        self.held_bytes += bytes_of(&step);
        if let Some(block) = self.open.get_mut(at) {
            block.waiting.push(step);
        }
    }

    fn advance(&mut self, steps: &mut Vec<Step>) {
        while self.open.front().is_some_and(|block| block.stopped) {
            self.open.pop_front();
            steps.push(Step::Stop);
            if let Some(next) = self.open.front_mut() {
                let waiting = std::mem::take(&mut next.waiting);
                self.held_bytes = self.held_bytes.saturating_sub(waiting.iter().map(bytes_of).sum());
                steps.extend(waiting);
            }
        }
    }
}

fn bytes_of(step: &Step) -> usize {
    match step {
        Step::Start(document) | Step::Delta(document) => size_of::<Step>() + document.bytes().len() + document.noted_bytes(),
        Step::Stop => size_of::<Step>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `s`tart, `d`elta, sto`p` of blocks; what passes, and what passes at the end.
    fn play(script: &str) -> Result<String, Fault> {
        let (mut sequencer, mut steps) = (Sequencer::default(), Vec::new());
        for event in script.split(' ') {
            let (kind, index) = event.split_at(1);
            let index = index.parse().unwrap();
            let document = Document::parse(format!("{index}").into()).unwrap();
            match kind {
                "s" => sequencer.start(index, document, &mut steps)?,
                "d" => sequencer.delta(index, document, &mut steps)?,
                _ => sequencer.stop(index, &mut steps),
            }
        }
        sequencer.finish(&mut steps);
        assert_eq!(sequencer.held_bytes, 0);
        let word = |step: &Step| match step {
            Step::Start(document) => format!("s{}", document.root().raw_str()),
            Step::Delta(document) => format!("d{}", document.root().raw_str()),
            Step::Stop => "p".to_owned(),
        };
        Ok(steps.iter().map(word).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn one_block_after_the_other() {
        for (script, expected) in [
            ("s0 d0 p0 s1 d1 p1", "s0 d0 p s1 d1 p"),
            ("s0 s1 d1 d0 p1 d0 p0", "s0 d0 d0 p s1 d1 p"),
            ("s0 d0 s0 d0 p0", "s0 d0 p s0 d0 p"),
            ("s3 d3 s1 d1", "s3 d3 p s1 d1 p"),
            ("p7 s0 p0 p0", "s0 p"),
        ] {
            assert_eq!(play(script).unwrap(), expected, "{script}");
        }
        assert!(play("s0 p0 d0").is_err() && play("d0").is_err());
    }
}
